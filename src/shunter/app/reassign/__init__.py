"""Moves that Shunter's controller carries out, asked for, turned and watched from outside."""
