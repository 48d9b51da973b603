"""Programs for the people who work on undertow: none of them is part of the package."""
