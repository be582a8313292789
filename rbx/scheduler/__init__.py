"""The sans-I/O runtime around a policy."""
