"""Jobs from freeze to import with state in PostgreSQL and objects in an S3 server."""
import journeys
import rig

if __name__ == "__main__":
    rig.main("remote", journeys.ALL, rig.RemotePlace)
