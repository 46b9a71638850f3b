"""Builds of the example clients in other languages, with stubs made from the .proto file."""
