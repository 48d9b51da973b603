"""`undertow why` on several ranks: each writes a journal, and one process compares them and reports."""
