"""Reading published tables again on command: what is asked, what it would reach, how it is carried out."""
