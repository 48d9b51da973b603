"""Facts derived from a trace: indexes over its records, and analyses that several causes share."""

from undertow.why.facts.facts import Facts as Facts
