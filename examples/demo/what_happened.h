#pragma once
#include <hammock/metrics.h>

/// The time that the program spends recording ops.
hammock::metrics::Metric& TraceTime();

/// What the runtime has done since the process began.
class WhatHappened {
 public:
  /// Takes the counts; later ones do not matter.
  explicit WhatHappened(double seconds);
  void Show(double times_eager) const;

 private:
  double seconds_, tracing_, compiling_, running_;
  long ops_, compiled_, hits_, kernels_, fallbacks_;
  double peak_megabytes_;
};
