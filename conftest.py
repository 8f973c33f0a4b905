"""What is collected: doctests of a module only where it can be imported.

Some are slow, and run by `make slow`; the fast part touches every module all the same.

And Ctrl-C works: shells let programs in the background ignore it, which tests of it,
and the programs that they start, would inherit.
"""

import signal
from importlib.util import find_spec

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Classes that inherit from those of another library, which need not be there.
NEEDS = {"src/kexpfam/bridges/skpro.py": "skpro", "docs/sections.py": "griffe"}

collect_ignore = [path for path, module in NEEDS.items() if not find_spec(module)]

# Files, or tests of them: networks and JAX, processes, suites of the paper, pages with
# many fits, statistics, and further cases of what a fast test shows on one.
SLOW = (
    "docs/baselines.md",
    "docs/choosing.md",
    "docs/graphs.md",
    "docs/sampling.md",
    "docs/scale.md",
    "docs/selection.md",
    "docs/tutorials/multimodal.md",
    "src/kexpfam/baselines/rnade.py",
    "src/kexpfam/graphs/held_out.py",
    "tests/baselines/test_rnade.py",
    "tests/baselines/test_rnade_training.py",
    "tests/benchmarks/test_rivals.py",
    "tests/bridges/test_missing.py",
    "tests/bridges/test_qp.py",
    "tests/bridges/test_skpro.py::test_the_norm_is_that_of_quadrature",
    "tests/cli/test_commands.py::test_an_interrupt_leaves_nothing_behind",
    "tests/cli/test_commands.py::test_pictures_of_every_kind_are_drawn[pdf]",
    "tests/cli/test_commands.py::test_pictures_of_every_kind_are_drawn[svg]",
    "tests/cli/test_installed.py",
    "tests/cli/test_tables.py::test_a_huge_file_is_read",
    "tests/comparison/test_relative.py::TestSizeAndPower",
    "tests/data/test_memory.py",
    "tests/datasets/test_simulations.py::test_density_integrates_to_one_and_to_its_distribution_function_and_mean[abrupt]",
    "tests/datasets/test_simulations.py::test_density_integrates_to_one_and_to_its_distribution_function_and_mean[bimodal]",
    "tests/datasets/test_simulations.py::test_density_integrates_to_one_and_to_its_distribution_function_and_mean[failure]",
    "tests/datasets/test_simulations.py::test_density_integrates_to_one_and_to_its_distribution_function_and_mean[heteroscedastic]",
    "tests/datasets/test_simulations.py::test_joint_density_integrates_to_one_over_each_column_given_those_before",
    "tests/display/test_pairs.py::TestPanels::test_few_and_many_columns[12]",
    "tests/distributions/test_transformed.py::test_highest_density_regions_are_those_of_y",
    "tests/distributions/test_transformed.py::test_mixtures_of_transformed_and_plain_densities",
    "tests/distributions/test_transformed.py::test_single_densities_and_selections",
    "tests/estimators/test_fit_methods.py::test_what_was_validated_is_what_is_fitted[likelihood]",
    "tests/estimators/test_masses.py::test_factors_of_a_joint_density_are_finished",
    "tests/estimators/test_masses.py::test_more_rows_make_a_finished_model_anew",
    "tests/estimators/test_masses.py::test_masses_are_right_by_default_with_more_rows",
    "tests/estimators/test_masses.py::test_the_order_of_rows_does_not_decide",
    "tests/estimators/test_properties.py",
    "tests/estimators/test_selection.py::test_several_columns_of_y_are_chosen_for",
    "tests/estimators/test_several_columns.py::test_quadrature_importance_and_tempering_agree_in_the_plane",
    "tests/estimators/test_shared_fits.py",
    "tests/explorer/test_command.py::test_the_page_is_served_until_interrupted",
    "tests/graphs/test_factorized.py::TestFactors::test_warnings_name_their_factor",
    "tests/graphs/test_factorized.py::TestSamples",
    "tests/integration/test_equivalence.py::test_densities_integrate_to_one_for_every_kernel",
    "tests/integration/test_frozen_numbers.py::test_figures_are_the_frozen_ones[averaged_many]",
    "tests/integration/test_frozen_numbers.py::test_figures_are_the_frozen_ones[averaged_more]",
    "tests/partition/test_tensor.py::test_the_stated_error_bounds_the_true_one_for_heavy_tails",
    "tests/regression/test_inducing_process.py::test_variances_are_never_too_small_and_hardly_too_large",
    "tests/reproduction/test_command.py",
    "tests/reproduction/test_failure.py",
    "tests/reproduction/test_figure1.py",
    "tests/reproduction/test_page.py",
    "tests/reproduction/test_rates.py",
    "tests/reproduction/test_table1_table2.py",
    "tests/reproduction/test_table3.py",
    "tests/sampling/test_formulas.py::test_every_kernel_is_the_same_in_jax",
    "tests/sampling/test_formulas.py::test_gradients_follow_the_coordinates_without_walls",
    "tests/sampling/test_hamiltonian.py::test_importing_kexpfam_does_not_import_jax",
    "tests/score_matching/test_centers.py::test_random_pivots_are_drawn_in_proportion_to_the_residual",
    "tests/test_causal.py::test_weighted_slopes_recover_the_effect_that_naive_ones_miss",
    "tests/test_documentation.py::test_pictures_are_made_by_their_scripts",
    "tests/test_documentation.py::test_the_commands_of_the_page_about_serving_run",
    "tests/test_metrics.py::TestCalibration::test_draws_of_the_model_are_calibrated",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow files and tests the marker that single tests give themselves."""
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
