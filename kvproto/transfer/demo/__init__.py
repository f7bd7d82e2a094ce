"""`kvproto transfer-demo`: pages between two processes of this machine."""
