"""Profiles of a workload: flame graphs, system calls and context switches per record."""
