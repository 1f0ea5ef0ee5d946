"""The server: pages, socket, files."""
