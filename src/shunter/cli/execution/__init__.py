"""Sub-room `cli.execution`: verbs that carry plans out, show, turn and undo them."""
