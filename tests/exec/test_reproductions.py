"""Where each script of `shared/reproductions/` is held by a test of the project's own form.

autocast_loss                  exec/lowering/test_autocast.py::test_a_graph_traced_under_autocast_is_planned_as_any_other
checkpoint_dropped             exec/lowering/test_regions.py::test_llama_with_gradient_checkpointing
kv_cache_constant              exec/capture/test_caches.py::test_decoding_with_a_cache_is_equal_to_one_device
cache_returned                 exec/capture/test_caches.py::test_a_graph_that_runs_leaves_the_cache_as_the_model_does
ranks_with_other_batches       exec/parallel/test_given_inputs.py::test_parts_that_differ_where_nothing_is_cut
dp_cuts_time                   partition/planning/test_batch.py::test_time_is_not_taken_for_the_batch
index_add                      exec/capture/test_trace.py::test_a_number_of_rows_that_data_tell_needs_no_condition
batchnorm_traffic              exec/distributed/test_traffic.py::test_what_rules_communicate_themselves_is_counted
other_model                    exec/parallel/test_same_model.py::test_the_first_difference_of_another_model_is_named
resnet_float32                 exec/running/test_against_float64.py::test_a_run_within_its_tolerance_is_not_run_again
01_matrix_rank_pinv            exec/lowering/test_edge_values.py::test_a_tolerance_of_each_matrix_is_cut_with_the_batch
02_vector_norm_below_one       exec/lowering/test_edge_values.py::test_norms_of_any_order_and_their_gradients
03_max_of_nan                  exec/lowering/test_edge_values.py::test_extremes_and_spreads_and_their_gradients
05_hang_stopped_rank           exec/distributed/test_stopped_ranks.py::test_a_stopped_rank_is_named_by_all_others
06_trace_frozen_dict           exec/capture/test_trace_state.py::test_a_container_that_forbids_writing_stays_as_it_is
07_size_as_argument            exec/capture/test_sizes_as_values.py::test_a_size_that_is_one_value
08_return_attribute_of_input   exec/capture/test_trace_results.py::test_an_attribute_of_a_tensor_is_returned_as_it_is
09_group_norm_one_value        exec/lowering/test_edge_values.py::test_one_value_left_on_a_rank
10_example_excluded            exec/capture/test_trace.py::test_a_graph_holds_at_its_example
11_rnn                         exec/test_torch_modules.py::test_a_module_of_torch_is_cut_and_equal
12_unrelated_facts             solver/proof/test_facts.py::test_facts_that_share_no_symbol_with_the_question_change_no_verdict
13_buffer_iadd                 exec/capture/test_trace_state.py::test_a_buffer_computed_on_in_place_is_carried
14_guard_disjunction           exec/capture/test_guards.py::test_a_choice_of_torch_that_always_holds_is_no_condition
15_multihead_attention_whole   exec/test_torch_modules.py::test_attention_is_cut_as_linear_layers_around_it_are
16_unresolved_torch_internals  exec/capture/test_numpy_functions.py::test_numbers_of_numpy_are_part_of_a_graph
17_verify_in_place             exec/verification/test_verify.py::test_what_is_written_and_returned_is_told_and_what_tracing_does_not_see_is_a_lie
18_half_statistics             exec/lowering/test_edge_values.py::test_few_bits_are_added_up_in_more
19_batch_norm_mixed_dtypes     exec/lowering/test_edge_values.py::test_batch_norm_of_few_bits
20_autocast_cross_entropy      partition/rules/test_autocast.py::test_a_cut_function_is_cast_as_the_whole_one
21_run_false_alarm             exec/running/test_without_narrowing.py

Of 17 the verdict is another one than the script expects: a traced graph knows what a registered
function writes to, and later calls read what was written; so the promise holds, and is told.
"""  # noqa: E501 (the name of a test is not broken)

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def test_every_reproduction_has_its_test() -> None:
    rows = [line.split() for line in str(__doc__).splitlines() if ".py" in line and "  " in line]
    assert len(rows) == 30
    for script, place in rows:
        path, _, name = place.partition("::")
        text = (TESTS / path).read_text(encoding="utf-8")
        assert f"def {name}" in text, script
