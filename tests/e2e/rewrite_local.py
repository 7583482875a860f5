"""Jobs from freeze to import with state in SQLite and objects in a folder."""
import journeys
import rig

if __name__ == "__main__":
    rig.main("local", journeys.ALL, rig.LocalPlace)
