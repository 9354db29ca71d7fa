/// Programs of several processes.

#include "hammock/distributed.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>

#include "gil.h"
#include "hammock/distributed/random_part.h"
#include "location.h"
#include "parts.h"
#include "tensor_object.h"

namespace hammock::python {
namespace {

using distributed::Group;
using distributed::RandomPart;
using distributed::Reduction;

Reduction ReductionOf(const std::string& name) {
  static constexpr std::pair<std::string_view, Reduction> kReductions[] = {
      {"sum", Reduction::kSum},
      {"mean", Reduction::kMean},
      {"min", Reduction::kMin},
      {"max", Reduction::kMax},
      {"prod", Reduction::kProd}};
  for (const auto& [known, reduction] : kReductions) {
    if (name == known) return reduction;
  }
  throw ValueError(ErrorCode::kValue,
                   "reduction must be 'sum', 'mean', 'min', 'max' or 'prod', not '" + name + "'");
}

Group GroupOf(const std::optional<Group>& group) { return group ? *group : distributed::world(); }

/// Calls what meets other ranks, without the GIL.
template <class Call>
auto Meet(Call call) {
  CallerLine line;
  WithoutGil no_gil;
  return call();
}

void AddGroups(nb::module_& module) {
  nb::class_<Group>(module, "Group", "A part of the ranks, in which each has a number.")
      .def_prop_ro("name", &Group::name)
      .def_prop_ro("rank", &Group::rank)
      .def_prop_ro("size", &Group::size)
      .def_prop_ro("world_ranks", &Group::world_ranks,
                   "The ranks of `init` that are its members, by rank in the group.")
      .def_prop_ro("steps", &Group::steps, "Steps with its collectives that have ended well here.")
      .def_prop_ro("failed", &Group::failed, "Whether an error has ended it.")
      .def(
          "split",
          [](const Group& self, int64_t color, int64_t key) {
            return Meet([&] { return self.split(color, key, Location()); });
          },
          nb::arg("color"), nb::arg("key") = 0,
          "Ranks that give the same `color` become a group, ordered by `key`. All ranks call it.")
      .def(
          "barrier", [](const Group& self) { Meet([&] { self.barrier(Location()); }); },
          "Returns when all ranks are here.")
      .def(
          "survivors",
          [](const Group& self) { return Meet([&] { return self.survivors(Location()); }); },
          "After an error: a group of the ranks that are still there, all of which call it.");
  module.def(
      "init",
      [](int rank, int size, int local_rank, const std::string& store, const std::string& job) {
        return Meet([&] {
          return distributed::init({rank, size, local_rank, store, job}, Location());
        });
      },
      nb::kw_only(), nb::arg("rank") = -1, nb::arg("size") = -1, nb::arg("local_rank") = -1,
      nb::arg("store") = "", nb::arg("job") = "",
      "Meets the other ranks: the group of all. What is not given comes from the environment.");
  module.def(
      "shutdown", [] { Meet([] { distributed::shutdown(Location()); }); },
      "Waits until all ranks have come to their end, and ends the connections.");
  module.def("is_initialized", distributed::is_initialized);
  module.def("world", distributed::world, "The group of all ranks; of one before `init`.");
  module.def("rank", distributed::rank);
  module.def("size", distributed::size);
  module.def("local_rank", distributed::local_rank, "Among the ranks of this host.");
}

void AddCollectives(nb::module_& module) {
  using OptionalGroup = std::optional<Group>;
  module.def(
      "all_reduce",
      [](const Tensor& self, const std::string& reduction, const OptionalGroup& group) {
        CallerLine line;
        return distributed::all_reduce(self, ReductionOf(reduction), GroupOf(group));
      },
      nb::arg("self"), nb::arg("reduction") = "sum", nb::arg("group") = nb::none(),
      "Every rank gets the reduction of all ranks' tensors, element by element. Of a list of "
      "tensors a list, in few messages.");
  module.def(
      "all_reduce",
      [](const std::vector<Tensor>& tensors, const std::string& reduction,
         const OptionalGroup& group) {
        CallerLine line;
        return distributed::all_reduce(tensors, ReductionOf(reduction), GroupOf(group));
      },
      nb::arg("tensors"), nb::arg("reduction") = "sum", nb::arg("group") = nb::none());
  module.def(
      "all_gather",
      [](const Tensor& self, int64_t dim, const OptionalGroup& group) {
        CallerLine line;
        return distributed::all_gather(self, dim, GroupOf(group));
      },
      nb::arg("self"), nb::arg("dim") = 0, nb::arg("group") = nb::none(),
      "The tensors of all ranks, one behind the other along `dim`.");
  module.def(
      "reduce_scatter",
      [](const Tensor& self, const std::string& reduction, int64_t dim,
         const OptionalGroup& group) {
        CallerLine line;
        return distributed::reduce_scatter(self, ReductionOf(reduction), dim, GroupOf(group));
      },
      nb::arg("self"), nb::arg("reduction") = "sum", nb::arg("dim") = 0,
      nb::arg("group") = nb::none(),
      "The part of the reduction, cut along `dim`, that has this rank's number.");
  module.def(
      "broadcast",
      [](const Tensor& self, int root, const OptionalGroup& group) {
        CallerLine line;
        return distributed::broadcast(self, root, GroupOf(group));
      },
      nb::arg("self"), nb::arg("root") = 0, nb::arg("group") = nb::none(),
      "The tensor of rank `root`; those of the others say only shape and dtype.");
  module.def(
      "all_to_all",
      [](const Tensor& self, int64_t split_dim, int64_t concat_dim, const OptionalGroup& group) {
        CallerLine line;
        return distributed::all_to_all(self, split_dim, concat_dim, GroupOf(group));
      },
      nb::arg("self"), nb::arg("split_dim") = 0, nb::arg("concat_dim") = 0,
      nb::arg("group") = nb::none(),
      "Part i along `split_dim` goes to rank i; what comes is put together along `concat_dim`.");
  module.def(
      "permute",
      [](const Tensor& self, const std::vector<std::pair<int, int>>& pairs,
         const OptionalGroup& group) {
        CallerLine line;
        return distributed::permute(self, pairs, GroupOf(group));
      },
      nb::arg("self"), nb::arg("pairs"), nb::arg("group") = nb::none(),
      "The tensor of the rank that is paired with this one as (from, to); zeros where there is "
      "none.");
}

/// RandomPart of a `with` block.
class RandomPartScope {
 public:
  RandomPartScope(std::optional<Group> group, int64_t dim) : group_(std::move(group)), dim_(dim) {}
  void Enter() { part_ = std::make_unique<RandomPart>(GroupOf(group_), dim_, Location()); }
  void Exit() { part_.reset(); }

 private:
  std::optional<Group> group_;
  int64_t dim_;
  std::unique_ptr<RandomPart> part_;
};

}  // namespace

void AddDistributed(nb::module_& module) {
  nb::module_ distributed = module.def_submodule("distributed");
  AddGroups(distributed);
  AddCollectives(distributed);
  nb::class_<RandomPartScope>(distributed, "RandomPart")
      .def(nb::init<std::optional<Group>, int64_t>(), nb::arg("group").none(), nb::arg("dim"))
      .def("enter",
           [](RandomPartScope& self) {
             CallerLine line;
             self.Enter();
           })
      .def("exit", &RandomPartScope::Exit);
}

}  // namespace hammock::python
