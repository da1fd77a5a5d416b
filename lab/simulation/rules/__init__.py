"""The rules that every world keeps, each with the sentence that it comes from."""
