"""The service ``hammingmark serve``: marked text and verdicts over HTTP."""
