"""Moves that Shunter's controller carries out: how clients ask for them, turn them and watch them."""
