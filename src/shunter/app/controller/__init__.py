"""Sub-room `app.controller`: composition roots of `shunter controller`, its settings, security, logs and metrics."""
