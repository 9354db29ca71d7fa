// Nothing: the target has the precompiled headers of all tests.
