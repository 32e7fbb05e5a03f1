"""The decisions as clients get them: pages of lines, and streams that go on as they are made."""
