"""Commands that run servers, or work on a stopped one."""
