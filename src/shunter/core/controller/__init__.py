"""The controller's state machine: one owner of the cluster's state, fed with events, answering with `Ready`."""
