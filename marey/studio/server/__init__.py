"""The server: pages come and go, each with a session and a worker thread of its own."""
