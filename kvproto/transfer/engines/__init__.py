"""Transfer engines behind one small protocol."""
