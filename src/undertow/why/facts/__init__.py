"""What follows from a trace: indexes over it, and the questions that several causes ask."""

from undertow.why.facts.facts import Facts as Facts
