"""The service ``hammingmark serve``: marked text and verdicts over HTTP.

Routes, schemas, policies, limits, logs and the page belong here, and the web framework nowhere
else. How text is marked or judged does not.
"""
