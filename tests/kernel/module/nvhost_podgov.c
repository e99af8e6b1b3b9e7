// SPDX-License-Identifier: GPL-2.0-only
/*
 * nvhost_podgov: a devfreq governor that behaves as the one of a Jetson's GPU
 * is described (load_max 900, load_target 700, bias 80, smooth 10, damp 7,
 * block_window 50 ms). Written anew from that description, not NVIDIA's code.
 */
#include <linux/devfreq.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include "governor.h"

static int load_max = 900, load_target = 700, bias = 80, smooth = 10, damp = 7;
static int block_window = 50000;	/* us */
module_param(load_max, int, 0644);
module_param(load_target, int, 0644);
module_param(bias, int, 0644);
module_param(smooth, int, 0644);
module_param(damp, int, 0644);
module_param(block_window, int, 0644);

/* of the one GPU, guarded by its devfreq lock; kHz keeps products in 64 bits */
static s64 target_khz, average_khz, cycles_khz;
static ktime_t changed;

static s64 propose(s64 load, s64 top_khz)
{
	s64 largest = div_s64(top_khz, 3), busy, boost;

	if (load > load_max)
		return target_khz + largest;
	busy = div64_s64(1000 * cycles_khz, target_khz);
	boost = div_s64(div_s64(target_khz * (busy - load_target), load_target) * bias, 100);
	boost = clamp(boost, -largest, largest);
	return div_s64(damp * (target_khz + boost) + (10 - damp) * average_khz, 10);
}

static int podgov_target(struct devfreq *df, unsigned long *freq)
{
	struct devfreq_dev_status *st = &df->last_status;
	unsigned long *table = df->freq_table;
	unsigned int i, n = df->max_state;
	s64 load, khz = target_khz;
	int err = devfreq_update_stats(df);

	if (err)
		return err;
	/* between two polls a change of the limits asks as well */
	if (st->total_time < 1000) {
		*freq = (unsigned long)target_khz * 1000;
		return 0;
	}
	target_khz = st->current_frequency / 1000;
	load = div64_u64(1000ULL * st->busy_time, st->total_time);
	cycles_khz = div_s64(smooth * cycles_khz + div_s64(target_khz * load, 1000), smooth + 1);
	average_khz = div_s64(smooth * average_khz + target_khz, smooth + 1);
	if (ktime_us_delta(ktime_get(), changed) >= block_window)
		khz = propose(load, table[n - 1] / 1000);
	else
		khz = target_khz;
	for (i = 0; i < n - 1 && (s64)(table[i] / 1000) < khz; i++)
		;
	khz = table[i] / 1000;
	if (khz != target_khz)
		changed = ktime_get();
	target_khz = khz;
	*freq = table[i];
	return 0;
}

static int podgov_event(struct devfreq *df, unsigned int event, void *data)
{
	switch (event) {
	case DEVFREQ_GOV_START:
		target_khz = average_khz = df->freq_table[0] / 1000;
		cycles_khz = 0;
		changed = 0;
		devfreq_monitor_start(df);
		break;
	case DEVFREQ_GOV_STOP:
		devfreq_monitor_stop(df);
		break;
	case DEVFREQ_GOV_UPDATE_INTERVAL:
		devfreq_update_interval(df, data);
		break;
	case DEVFREQ_GOV_SUSPEND:
		devfreq_monitor_suspend(df);
		break;
	case DEVFREQ_GOV_RESUME:
		devfreq_monitor_resume(df);
		break;
	}
	return 0;
}

static struct devfreq_governor podgov = {
	.name = "nvhost_podgov",
	.attrs = DEVFREQ_GOV_ATTR_POLLING_INTERVAL | DEVFREQ_GOV_ATTR_TIMER,
	.get_target_freq = podgov_target,
	.event_handler = podgov_event,
};

static int __init podgov_init(void)
{
	return devfreq_add_governor(&podgov);
}

static void __exit podgov_exit(void)
{
	devfreq_remove_governor(&podgov);
}
module_init(podgov_init);
module_exit(podgov_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("a governor that behaves as nvhost_podgov is described");
