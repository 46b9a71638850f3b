"""A cluster under load is upgraded to another version and back, process by process."""
