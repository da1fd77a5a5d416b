package shunter.agent;

import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import kafka.integration.KafkaServerTestHarness;
import kafka.network.SocketServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaServer;
import kafka.server.QuorumTestHarness;
import kafka.zk.KafkaZkClient;
import org.apache.kafka.admin.BrokerMetadata;
import org.apache.kafka.common.Uuid;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooKeeper;
import org.mockito.Mockito;
import org.opentest4j.TestAbortedException;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.Seq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;

/** The controllers of the tests that run in this process: one for each ZooKeeper, started once, ended with it. */
public final class Controllers {
    private static final long STARTED_WITHIN_MS = 120_000;
    private static final int BROKER_ID = 9_999;
    private static final java.util.Map<String, Process> RUNNING = new HashMap<>();
    private static final java.util.Map<String, Integer> PORTS = new HashMap<>();
    /** Classes that send broker requests to their only broker. They do not need it to be the controller. */
    private static final Set<String> ASK_THE_BROKER = Set.of(
        "AlterReplicaLogDirsRequestTest", "DescribeLogDirsRequestTest", "StopReplicaRequestTest");
    /** Settings of brokers by which Apache's controller decides, and the names of Shunter's settings. */
    private static final java.util.Map<String, String> SETTINGS = java.util.Map.of(
        "num.partitions", "default_partitions",
        "default.replication.factor", "default_replication_factor",
        "min.insync.replicas", "default_min_isr",
        "unclean.leader.election.enable", "unclean_leader_election",
        "delete.topic.enable", "delete_topics",
        "auto.leader.rebalance.enable", "leader_rebalance_enable",
        "remote.log.storage.system.enable", "tiered_storage",
        "leader.imbalance.per.broker.percentage", "leader_imbalance_percent",
        "inter.broker.protocol.version", "inter_broker_protocol_version");

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> RUNNING.values().forEach(Process::destroyForcibly)));
    }

    private Controllers() {}

    /** Abort a KRaft variant: Shunter has no controller for KRaft. */
    public static void abortKRaft() {
        throw new TestAbortedException("KRaft: there is no ZooKeeper-mode controller");
    }

    /** Start the controller of a broker's ZooKeeper, if none runs, with the defaults of that broker's own properties. */
    public static synchronized void ensure(Object server) {
        try {
            Object config = server.getClass().getMethod("config").invoke(server);
            String connect = (String) config.getClass().getMethod("zkConnect").invoke(config);
            if (connect == null || RUNNING.containsKey(connect) || !answers(connect)) {
                return; // Without a ZooKeeper the broker itself reports the error.
            }
            java.util.Map<?, ?> properties = (java.util.Map<?, ?>) config.getClass().getMethod("originals").invoke(config);
            RUNNING.put(connect, start(connect, properties));
            awaitController(connect);
        } catch (ReflectiveOperationException | IOException | InterruptedException | KeeperException failure) {
            throw new IllegalStateException("Shunter's controller did not start", failure);
        }
    }

    /** End the controller of a ZooKeeper that ends. */
    public static synchronized void end(Object zookeeper) {
        try {
            int port = (int) zookeeper.getClass().getMethod("port").invoke(zookeeper);
            for (String connect : new ArrayList<>(RUNNING.keySet())) {
                if (connect.contains(":" + port)) {
                    PORTS.remove(connect);
                    Process controller = RUNNING.remove(connect);
                    // On SIGTERM it would resign, and brokers that still run would try to elect a controller.
                    controller.destroyForcibly().waitFor();
                }
            }
        } catch (ReflectiveOperationException | InterruptedException failure) {
            throw new IllegalStateException("Shunter's controller did not end", failure);
        }
    }

    /** A stand-in for the socket server of the active controller. It returns the port of Shunter's controller. */
    public static synchronized Object socketServer(Object test) {
        if (PORTS.isEmpty()) {
            return null;
        }
        if (ASK_THE_BROKER.contains(test.getClass().getSimpleName())) {
            return ((KafkaServer) ((KafkaServerTestHarness) test).servers().iterator().next()).socketServer();
        }
        int port = PORTS.values().iterator().next();
        return Mockito.mock(SocketServer.class, call ->
            call.getMethod().getName().equals("boundPort") ? port : Mockito.RETURNS_DEFAULTS.answer(call));
    }

    /**
     * The broker of the test's own process that stands for the controller: the one with the lowest id; null if there
     * is none.
     *
     * <p>Tests place replicas on this broker because they never stop it. They don't need it to decide.
     */
    public static Integer stableBroker(Object client) {
        Iterator<Object> ids = ((KafkaZkClient) client).getSortedBrokerList().iterator();
        while (ids.hasNext()) {
            Integer id = (Integer) ids.next();
            if (id != BROKER_ID) {
                return id;
            }
        }
        return null;
    }

    /** Wait until each of some brokers knows exactly these brokers as alive, beside Shunter's node. */
    public static boolean awaitMetadata(Object brokers, long timeoutMs) {
        List<KafkaBroker> asked = new ArrayList<>();
        Set<Integer> expected = new HashSet<>();
        Iterator<?> all = ((Seq<?>) brokers).iterator();
        while (all.hasNext()) {
            KafkaBroker broker = (KafkaBroker) all.next();
            asked.add(broker);
            expected.add(broker.config().brokerId());
        }
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
        while (!asked.stream().allMatch(broker -> expected.equals(known(broker)))) {
            if (System.nanoTime() > until) {
                throw new AssertionError("Timed out waiting for broker metadata to propagate to all servers");
            }
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(20));
        }
        return true;
    }

    private static Set<Integer> known(KafkaBroker broker) {
        Set<Integer> ids = new HashSet<>();
        Iterator<BrokerMetadata> alive = broker.metadataCache().getAliveBrokers().iterator();
        while (alive.hasNext()) {
            ids.add(alive.next().id);
        }
        ids.remove(BROKER_ID);
        return ids;
    }

    /** Ids of all topics, by name, as ZooKeeper has them. */
    public static Map<String, Uuid> topicIds(Object harness) {
        KafkaZkClient client = ((QuorumTestHarness) harness).zkClient();
        return Map$.MODULE$.from(client.getTopicIdsForTopics(client.getAllTopicsInCluster(false)));
    }

    /** Names of all topics, by id, as ZooKeeper has them. */
    public static Map<Uuid, String> topicNames(Object harness) {
        Map<Uuid, String> names = Map$.MODULE$.empty();
        Iterator<Tuple2<String, Uuid>> ids = topicIds(harness).iterator();
        while (ids.hasNext()) {
            Tuple2<String, Uuid> id = ids.next();
            names = names.updated(id._2(), id._1());
        }
        return names;
    }

    private static boolean answers(String connect) {
        String address = connect.split("[,/]")[0];
        int colon = address.lastIndexOf(':');
        try (Socket socket = new Socket(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)))) {
            return socket.isConnected();
        } catch (IOException absent) {
            return false;
        }
    }

    private static Process start(String connect, java.util.Map<?, ?> properties) throws IOException {
        int port;
        try (ServerSocket free = new ServerSocket(0)) {
            port = free.getLocalPort();
        }
        PORTS.put(connect, port);
        String name = String.valueOf(properties.containsKey("inter.broker.listener.name")
            ? properties.get("inter.broker.listener.name")
            : properties.containsKey("security.inter.broker.protocol") ? properties.get("security.inter.broker.protocol")
            : "PLAINTEXT");
        List<String> command = new ArrayList<>(List.of(
            System.getProperty("shunter.tests.python"), "-m", "shunter", "controller",
            "--zookeeper", connect, "--listener", name + "://localhost:" + port, "--broker-id", String.valueOf(BROKER_ID),
            "--set", "session_timeout_ms=6000"));
        Object controlPlane = properties.get("control.plane.listener.name");
        if (controlPlane != null) {
            try (ServerSocket free = new ServerSocket(0)) {
                command.addAll(List.of("--listener", controlPlane + "://localhost:" + free.getLocalPort()));
            }
        }
        for (java.util.Map.Entry<String, String> setting : SETTINGS.entrySet()) {
            Object value = properties.get(setting.getKey());
            // The test framework's default is the newest version of all, which is KRaft's. Without the setting Shunter
            // asks the brokers.
            if (value != null && !value.toString().startsWith("4.")) {
                command.addAll(List.of("--set", setting.getValue() + "=" + value));
            }
        }
        Object seconds = properties.get("leader.imbalance.check.interval.seconds");
        if (seconds != null) {
            command.addAll(List.of("--set", "leader_rebalance_interval_ms=" + Long.parseLong(seconds.toString()) * 1000));
        }
        Object samples = properties.get("controller.quota.window.num");
        Object window = properties.get("controller.quota.window.size.seconds");
        if (samples != null && window != null) {
            long burst = Long.parseLong(samples.toString()) * Long.parseLong(window.toString());
            command.addAll(List.of("--set", "mutation_quota_burst_seconds=" + burst));
        }
        File log = new File(System.getProperty("shunter.tests.logs"), "controllers.log");
        return new ProcessBuilder(command)
            .redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.appendTo(log))
            .start();
    }

    private static void awaitController(String connect) throws IOException, InterruptedException, KeeperException {
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(STARTED_WITHIN_MS);
        ZooKeeper zookeeper = new ZooKeeper(connect, 10_000, event -> { });
        try {
            while (!led(zookeeper)) {
                if (!RUNNING.get(connect).isAlive()) {
                    throw new IllegalStateException("Shunter's controller ended; see controllers.log");
                }
                if (System.nanoTime() > until) {
                    throw new IllegalStateException("Shunter does not control " + connect + " within the time allowed");
                }
                Thread.sleep(20);
            }
        } finally {
            zookeeper.close();
        }
    }

    private static boolean led(ZooKeeper zookeeper) throws InterruptedException, KeeperException {
        try {
            String holder = new String(zookeeper.getData("/controller", false, null), StandardCharsets.UTF_8);
            return holder.contains("\"brokerid\":" + BROKER_ID);
        } catch (KeeperException.NoNodeException | KeeperException.ConnectionLossException absent) {
            return false;
        }
    }
}
