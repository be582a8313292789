"""What came in time: OnTimeUtility, attainment, BEAR against its rivals, and TTFT predictions."""
