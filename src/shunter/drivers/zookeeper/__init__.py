"""Sub-room `drivers.zookeeper`: the client, its access and rights, the cluster's reader, watches, and the fenced store."""
