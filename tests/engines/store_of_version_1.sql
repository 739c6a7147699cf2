PRAGMA application_id = 1400130416;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE dropped (partition INTEGER PRIMARY KEY) STRICT;
CREATE TABLE event_ids (
    log INTEGER NOT NULL,
    id TEXT NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (log, id)
) STRICT, WITHOUT ROWID;
INSERT INTO "event_ids" VALUES(1,'e1',8192);
INSERT INTO "event_ids" VALUES(1,'e2',8193);
CREATE TABLE events (
    place INTEGER PRIMARY KEY, -- segment * 8192 + place in it: a segment's records lie beside each other
    revision INTEGER NOT NULL,
    number INTEGER NOT NULL,
    frame BLOB NOT NULL
) STRICT;
INSERT INTO "events" VALUES(8192,1796086596123549,1,X'0A120A02653120012A0178689DF7B0FCFFB09803');
INSERT INTO "events" VALUES(8193,1796086596123550,2,X'0A120A02653220022A0178689EF7B0FCFFB09803');
INSERT INTO "events" VALUES(8194,1796086596123551,3,X'0A0E20032A0178689FF7B0FCFFB09803');
CREATE TABLE file (highest INTEGER NOT NULL) STRICT;
INSERT INTO "file" VALUES(1796086596126351);
CREATE TABLE logs (
    id INTEGER PRIMARY KEY,
    partition INTEGER NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL, -- the highest ever
    trimmed INTEGER NOT NULL, -- the highest that was trimmed
    born INTEGER NOT NULL, -- the first record's revision
    newest INTEGER NOT NULL, -- the last record's revision
    count INTEGER NOT NULL,
    named INTEGER NOT NULL, -- whether a record ever had an id
    head INTEGER NOT NULL, -- the head's revision, 0 where there is none
    expires INTEGER NOT NULL, -- of a key whose head is not deleted; else 0
    segment INTEGER NOT NULL, -- of events: the one that is being filled,
    filled INTEGER NOT NULL, -- how many records it holds,
    size INTEGER NOT NULL, -- and how many bytes their frames are
    UNIQUE (partition, name)
) STRICT;
INSERT INTO "logs" VALUES(1,1,'emain',3,0,1796086596123549,1796086596123551,3,1,0,0,1,3,56);
INSERT INTO "logs" VALUES(2,1,'kk',2,0,1796086596123552,1796086596123553,2,0,1796086596123553,0,0,0,0);
INSERT INTO "logs" VALUES(3,1,'kd',1,0,1796086596123554,1796086596123554,1,0,1796086596123554,0,0,0,0);
INSERT INTO "logs" VALUES(4,1,'kx',1,0,1796086596123555,1796086596123555,1,0,1796086596123555,2305843009213693952,0,0,0);
INSERT INTO "logs" VALUES(5,1,'cmain',5,0,1796086596123556,1796086596123557,2,1,1796086596123557,0,0,0,0);
INSERT INTO "logs" VALUES(6,1,'r',1,0,1796086596123558,1796086596123558,1,1,1796086596123558,0,0,0,0);
INSERT INTO "logs" VALUES(7,2,'kz',1,0,1796086596126352,1796086596126352,1,0,1796086596126352,0,0,0,0);
CREATE TABLE partitions (
    id INTEGER PRIMARY KEY,
    name BLOB NOT NULL UNIQUE, -- UTF-8; it may hold a zero byte, which text in SQLite should not
    life INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    oldest INTEGER NOT NULL,
    create_time INTEGER NOT NULL,
    update_time INTEGER NOT NULL,
    alive INTEGER NOT NULL, -- keys whose head is not deleted
    changes INTEGER NOT NULL -- what tells one state of a partition from another, sweeps included
) STRICT;
INSERT INTO "partitions" VALUES(1,X'70',1796086596123548,1796086596123558,1796086596123549,1796086596123548,1796086596123548,2,1);
INSERT INTO "partitions" VALUES(2,X'710031',1796086596126351,1796086596126352,1796086596126352,1796086596126351,1796086596126351,1,1);
CREATE TABLE records ( -- all but events
    place INTEGER PRIMARY KEY,
    partition INTEGER NOT NULL,
    kind TEXT NOT NULL, -- the first character of the log's name
    log INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    value_size INTEGER NOT NULL,
    deleted INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    frame BLOB NOT NULL
) STRICT;
INSERT INTO "records" VALUES(1,1,'k',2,1796086596123552,1,'',0,0,0,X'0A0E20012A017868A0F7B0FCFFB09803');
INSERT INTO "records" VALUES(2,1,'k',2,1796086596123553,2,'',0,0,0,X'0A0E20022A017868A1F7B0FCFFB09803');
INSERT INTO "records" VALUES(3,1,'k',3,1796086596123554,1,'',0,1,0,X'0A0E20012A017868A2F7B0FCFFB09803');
INSERT INTO "records" VALUES(4,1,'k',4,1796086596123555,1,'',0,0,2305843009213693952,X'0A0E20012A017868A3F7B0FCFFB09803');
INSERT INTO "records" VALUES(5,1,'c',5,1796086596123556,5,'c1',0,0,0,X'0A120A02633120052A017868A4F7B0FCFFB09803');
INSERT INTO "records" VALUES(6,1,'c',5,1796086596123557,3,'c2',0,0,0,X'0A120A02633220032A017868A5F7B0FCFFB09803');
INSERT INTO "records" VALUES(7,1,'r',6,1796086596123558,1,'req',0,0,0,X'0A130A0372657120012A017868A6F7B0FCFFB09803');
INSERT INTO "records" VALUES(8,2,'k',7,1796086596126352,1,'',0,0,0,X'0A0E20012A017868908DB1FCFFB09803');
CREATE TABLE segments ( -- of events: records that one message of a stream carries, about 256 KiB
    id INTEGER PRIMARY KEY,
    log INTEGER NOT NULL,
    first INTEGER NOT NULL, -- the revision of its first record
    before INTEGER NOT NULL, -- how many records the log holds before it
    UNIQUE (log, first)
) STRICT;
INSERT INTO "segments" VALUES(1,1,1796086596123549,0);
CREATE INDEX logs_expiring ON logs (partition, expires) WHERE expires > 0;
CREATE UNIQUE INDEX records_by_revision ON records (log, revision);
CREATE INDEX records_by_number ON records (log, number, revision);
CREATE INDEX records_by_kind ON records (partition, kind, revision);
CREATE INDEX records_by_id ON records (log, id) WHERE id <> '';
CREATE INDEX records_expiring ON records (expires) WHERE expires > 0;
COMMIT;
