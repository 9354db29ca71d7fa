#include "ir/class_table.h"

namespace hammock {

std::vector<ClassDef> InTreeClasses() { return {}; }

}  // namespace hammock
