"""Tables, figures and the document: everything that a reader sees, made from the runs table and the library."""
