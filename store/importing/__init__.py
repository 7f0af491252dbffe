"""Sessions of foreign tools in and back out: found, cut into records, appended; joined again byte for byte."""
