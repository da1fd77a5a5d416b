-- A journal as version 1 wrote it: no causes, no checksums, kinds with underscores, fields in a box.
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE entries (sequence INTEGER PRIMARY KEY, body TEXT NOT NULL);
INSERT INTO about VALUES ('version', '1');
INSERT INTO entries VALUES (1, '{"type":"plan_accepted","time":1000,"data":{"plan_id":"p","cluster_id":"c","options":{"strategy":"incremental","throttle":5000000}}}');
INSERT INTO entries VALUES (2, '{"type":"move_accepted","time":1000,"data":{"tp":"orders-eu-0","topic_id":null,"original":[2,1],"target":[3,1],"strategy":"incremental","size_bytes":77}}');
INSERT INTO entries VALUES (3, '{"type":"throttle_remembered","time":1001,"data":{"key":["broker","1","leader.replication.throttled.rate"],"value":null}}');
INSERT INTO entries VALUES (4, '{"type":"throttle_set","time":1001,"data":{"key":["broker","1","leader.replication.throttled.rate"],"value":"5000000"}}');
INSERT INTO entries VALUES (5, '{"type":"step_begun","time":1002,"data":{"tp":"orders-eu-0","number":1,"before":[2,1],"after":[2,1,3],"reason":"forward: +3"}}');
INSERT INTO entries VALUES (6, '{"type":"step_accepted","time":1003,"data":{"tp":"orders-eu-0","number":1}}');
INSERT INTO entries VALUES (7, '{"type":"step_finished","time":1009,"data":{"tp":"orders-eu-0","number":1,"replicas":[2,1,3],"isr":[2,1,3]}}');
