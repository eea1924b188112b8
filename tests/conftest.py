import os

from hypothesis import settings

# In CI the same examples every time: a run says whether the change is good, not whether luck was.
settings.register_profile("carryon", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("carryon")
