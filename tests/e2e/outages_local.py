"""What breaks around the program, with state in SQLite and objects in a folder."""
import outages
import rig

if __name__ == "__main__":
    rig.main("outages", outages.LOCAL, rig.LocalPlace)
