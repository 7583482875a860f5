"""What breaks around the program, with state in PostgreSQL and objects in an S3 server."""
import outages
import rig

if __name__ == "__main__":
    rig.main("outages", outages.REMOTE, rig.RemotePlace)
