"""Cuvil behind the interfaces of other tools."""
