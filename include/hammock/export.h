#pragma once

/// Marks what libhammock exports; everything else is hidden.
#define HAMMOCK_API __attribute__((visibility("default")))
