"""The open-loop load client: requests leave on an absolute schedule, whatever the servers do."""
