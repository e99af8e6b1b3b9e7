// SPDX-License-Identifier: GPL-2.0-only
/*
 * orin_sim: a virtual Jetson AGX Orin board for exercising real kernel
 * interfaces. Registers
 *   - platform device 17000000.gpu with OPPs and a devfreq device
 *   - an i2c adapter (nr=1) carrying two INA3221 register files (0x40, 0x41),
 *     whose shunt/bus registers follow a power model of the current
 *     GPU frequency and of the demand set in .../17000000.gpu/sim_demand.
 * The rails are then read through the unmodified drivers/hwmon/ina3221.c, and
 * the clock is set through the unmodified drivers/devfreq with the governor of
 * nvhost_podgov.c.
 */
#include <linux/delay.h>
#include <linux/devfreq.h>
#include <linux/i2c.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/platform_device.h>
#include <linux/pm_opp.h>
#include <linux/pm_qos.h>
#include <linux/sched/signal.h>
#include <linux/swab.h>

static const unsigned long sim_freqs[] = {
	306000000, 408000000, 510000000, 612000000, 714000000, 816000000,
	918000000, 1020000000, 1122000000, 1224000000, 1300500000,
};
#define SIM_FMAX 1300500000UL
#define SIM_NF ARRAY_SIZE(sim_freqs)

/* knobs: /sys/module/orin_sim/parameters/ */
static int i2c_fail;		/* fail this many coming transfers */
static int i2c_fail_errno = 121;	/* EREMOTEIO */
static int i2c_delay_us = 0;	/* bus time of one transfer (400 kHz: ~120) */
static bool i2c_hang;		/* transfers hang until this is 0 or they are killed */
static int target_fail;		/* fail this many coming frequency changes */
static ulong refuse_hz;		/* this frequency cannot be set */
static int switch_us = 5000;	/* how long a frequency change takes, as on an Orin Nano */
static bool recursive = true;	/* averaging as NVIDIA describes it: new = old + (x - old) / N */
static int tau_us = 2000;	/* lag of the power behind frequency/load */
static int noise_mw;
module_param(i2c_fail, int, 0644);
module_param(i2c_fail_errno, int, 0644);
module_param(i2c_delay_us, int, 0644);
module_param(i2c_hang, bool, 0644);
module_param(target_fail, int, 0644);
module_param(refuse_hz, ulong, 0644);
module_param(switch_us, int, 0644);
module_param(recursive, bool, 0644);
module_param(tau_us, int, 0644);
module_param(noise_mw, int, 0644);
static int bind = 1;
module_param(bind, int, 0444);

static DEFINE_MUTEX(sim_lock);
static struct platform_device *sim_pdev;
static struct devfreq *sim_df;
static unsigned long sim_freq = 306000000;
static unsigned int sim_demand = 0;	/* permille of the work at FMAX */
static u64 sim_last_ns;
static u64 p_gpu_mw = 4000;		/* filtered */
static u64 energy_uj, work_units;	/* truth, for the tests */
static u64 st_busy_ns, st_total_ns;
static struct dev_pm_qos_request sim_cap;	/* as a thermal zone's cooling sets it */
static unsigned long sim_cap_hz;

static unsigned int sim_util(void)	/* permille of the current capacity */
{
	u64 u = div_u64((u64)sim_demand * (SIM_FMAX / 1000), sim_freq / 1000);

	return u > 1000 ? 1000 : u;
}

static u64 sim_steady_mw(void)
{
	u64 mhz = sim_freq / 1000000, mv, dyn;

	mv = 600 + div_u64(mhz * 320, 1300);
	/* 28 W at 1300 MHz, 920 mV, fully busy */
	dyn = div_u64(28000ULL * mhz * mv * mv, 1300ULL * 920);
	dyn = div_u64(dyn, 920);
	return 3500 + div_u64(mv * 2, 1) + div_u64(dyn * sim_util(), 1000);
}

/* bring the plant to now; called with sim_lock held */
static void sim_advance(void)
{
	u64 now = ktime_get_ns(), dt = now - sim_last_ns, tau = (u64)tau_us * 1000;
	u64 ss = sim_steady_mw();
	unsigned int u = sim_util();

	sim_last_ns = now;
	energy_uj += div_u64(p_gpu_mw * (dt / 1000), 1000);
	work_units += div_u64((u64)u * (sim_freq / 1000000) * (dt / 1000), 1000);
	st_busy_ns += div_u64(dt * u, 1000);
	st_total_ns += dt;
	if (dt > 20 * tau)
		p_gpu_mw = ss;
	else if (ss > p_gpu_mw)
		p_gpu_mw += div64_u64((ss - p_gpu_mw) * dt, tau + dt);
	else
		p_gpu_mw -= div64_u64((p_gpu_mw - ss) * dt, tau + dt);
}

/* ---------------------------------------------------------------- devfreq */
static int sim_target(struct device *dev, unsigned long *freq, u32 flags)
{
	struct dev_pm_opp *opp;
	unsigned long f;

	/* nvgpu rounds up, where the devfreq core would round down at the limits */
	opp = dev_pm_opp_find_freq_ceil(dev, freq);
	if (IS_ERR(opp))
		opp = dev_pm_opp_find_freq_floor(dev, freq);
	if (IS_ERR(opp))
		return PTR_ERR(opp);
	f = dev_pm_opp_get_freq(opp);
	dev_pm_opp_put(opp);
	if (f == sim_freq) {
		*freq = f;
		return 0;
	}
	if (switch_us > 0)
		usleep_range(switch_us, switch_us + 100);
	mutex_lock(&sim_lock);
	if (f == refuse_hz || target_fail > 0) {
		target_fail -= f != refuse_hz;
		mutex_unlock(&sim_lock);
		return -EIO;
	}
	sim_advance();
	sim_freq = f;
	mutex_unlock(&sim_lock);
	*freq = f;
	return 0;
}

static int sim_status(struct device *dev, struct devfreq_dev_status *st)
{
	mutex_lock(&sim_lock);
	sim_advance();
	st->busy_time = st_busy_ns / 1000;
	st->total_time = st_total_ns / 1000;
	st_busy_ns = st_total_ns = 0;
	st->current_frequency = sim_freq;
	mutex_unlock(&sim_lock);
	return 0;
}

static int sim_cur(struct device *dev, unsigned long *freq)
{
	*freq = sim_freq;
	return 0;
}

static struct devfreq_dev_profile sim_profile = {
	.initial_freq = 306000000,
	.polling_ms = 25,
	.timer = DEVFREQ_TIMER_DELAYED,
	.target = sim_target,
	.get_dev_status = sim_status,
	.get_cur_freq = sim_cur,
};

static ssize_t load_show(struct device *d, struct device_attribute *a, char *b)
{
	return sysfs_emit(b, "%u\n", sim_util());
}
static DEVICE_ATTR_RO(load);

static ssize_t sim_demand_show(struct device *d, struct device_attribute *a, char *b)
{
	return sysfs_emit(b, "%u\n", sim_demand);
}

static ssize_t sim_demand_store(struct device *d, struct device_attribute *a,
				const char *b, size_t n)
{
	unsigned int v;
	int ret = kstrtouint(b, 0, &v);

	if (ret)
		return ret;
	if (v > 4000)
		return -EINVAL;
	mutex_lock(&sim_lock);
	sim_advance();
	sim_demand = v;
	mutex_unlock(&sim_lock);
	return n;
}
static DEVICE_ATTR_RW(sim_demand);

static ssize_t sim_truth_show(struct device *d, struct device_attribute *a, char *b)
{
	ssize_t n;

	mutex_lock(&sim_lock);
	sim_advance();
	n = sysfs_emit(b, "power_mw %llu energy_uj %llu work %llu freq %lu\n",
		       p_gpu_mw, energy_uj, work_units, sim_freq);
	mutex_unlock(&sim_lock);
	return n;
}
static DEVICE_ATTR_RO(sim_truth);

static ssize_t sim_cap_show(struct device *d, struct device_attribute *a, char *b)
{
	return sysfs_emit(b, "%lu\n", sim_cap_hz);
}

/* Hz, 0 = none */
static ssize_t sim_cap_store(struct device *d, struct device_attribute *a,
			     const char *b, size_t n)
{
	unsigned long hz;
	int ret = kstrtoul(b, 0, &hz);

	if (ret)
		return ret;
	sim_cap_hz = hz;
	ret = dev_pm_qos_update_request(&sim_cap, hz ? hz / 1000 :
					PM_QOS_MAX_FREQUENCY_DEFAULT_VALUE);
	return ret < 0 ? ret : n;
}
static DEVICE_ATTR_RW(sim_cap);

static struct attribute *sim_attrs[] = {
	&dev_attr_load.attr, &dev_attr_sim_demand.attr,
	&dev_attr_sim_truth.attr, &dev_attr_sim_cap.attr, NULL,
};
ATTRIBUTE_GROUPS(sim);

/* ------------------------------------------------------------ two INA3221 */
static const u16 ina_ct[] = { 140, 204, 332, 588, 1100, 2116, 4156, 8244 };
static const u16 ina_avg[] = { 1, 4, 16, 64, 128, 256, 512, 1024 };

struct sim_ina {
	u16 reg[256];
	u64 conv_ns;		/* when the last conversion ended; 0 = none since a reset */
	u64 avg_nv[3];		/* the recursive average of the shunt voltage */
	u32 mv[3], shunt_uohm[3];
};
static struct sim_ina ina[2];

static void ina_reset(struct sim_ina *c)
{
	int i;

	memset(c->reg, 0, sizeof(c->reg));
	c->reg[0x00] = 0x7127;
	for (i = 0; i < 3; i++)
		c->reg[0x07 + 2 * i] = c->reg[0x08 + 2 * i] = 0x7ff8;
	c->reg[0x0e] = 0x7ffe;
	c->reg[0x0f] = 0x0002;
	c->reg[0x10] = 0x2710;
	c->reg[0x11] = 0x2328;
	c->reg[0xfe] = 0x5449;
	c->reg[0xff] = 0x3220;
	c->conv_ns = 0;
}

static u64 rail_mw(int chip, int ch)
{
	u64 g = p_gpu_mw;

	if (noise_mw)
		g += get_random_u32() % noise_mw;
	if (chip == 0)
		return ch == 0 ? g : ch == 1 ? 2500 : 5000 + div_u64(g, 20);
	return ch == 1 ? 1200 + div_u64(g, 12) : 0;
}

/* the average of the channel, k conversions of the value nv later */
static u64 ina_average(struct sim_ina *c, int i, u64 nv, u64 k, u32 avg)
{
	u64 a = c->avg_nv[i];

	if (!c->conv_ns || avg == 1 || k > 16 * avg)
		a = nv;
	else
		for (; k; k--)
			a = a + div_u64(nv, avg) - div_u64(a, avg);
	return c->avg_nv[i] = a;
}

/* let the chip have converted until now; its conversions go on without readers */
static void ina_convert(int n)
{
	struct sim_ina *c = &ina[n];
	u16 cfg = c->reg[0];
	u64 now = ktime_get_ns(), cycle, k;
	u32 avg = ina_avg[(cfg >> 9) & 7];
	int i, sum = 0;

	if (!(cfg & 7))
		return;		/* power down */
	cycle = (u64)hweight16(cfg & 0x7000) * 1000 *
		(ina_ct[(cfg >> 6) & 7] + ina_ct[(cfg >> 3) & 7]);
	if (!recursive)
		cycle *= avg;
	if (!cycle || (c->conv_ns && now - c->conv_ns < cycle))
		return;		/* no new conversion yet: stale as on the chip */
	k = c->conv_ns ? div64_u64(now - c->conv_ns, cycle) : 1;
	sim_advance();
	for (i = 0; i < 3; i++) {
		u64 ma, nv;
		int lsb;

		if (!(cfg & BIT(14 - i)))
			continue;
		ma = div_u64(rail_mw(n, i) * 1000, c->mv[i]);
		nv = ina_average(c, i, ma * c->shunt_uohm[i], k, recursive ? avg : 1);
		lsb = min_t(u64, div_u64(nv + 20000, 40000), 4095);
		c->reg[1 + 2 * i] = lsb << 3;
		c->reg[2 + 2 * i] = (c->mv[i] / 8) << 3;
		sum += lsb;
		if (lsb << 3 > c->reg[7 + 2 * i])
			c->reg[0x0f] |= BIT(9 - i);
	}
	c->conv_ns = c->conv_ns ? c->conv_ns + k * cycle : now;
	c->reg[0x0d] = sum << 1;
	c->reg[0x0f] |= 1;	/* CVRF */
}

static s32 sim_xfer(struct i2c_adapter *a, u16 addr, unsigned short flags,
		    char rw, u8 cmd, int size, union i2c_smbus_data *data)
{
	int n = addr - 0x40, ret = 0;
	struct sim_ina *c;

	if (n < 0 || n > 1)
		return -ENXIO;
	c = &ina[n];
	while (READ_ONCE(i2c_hang))
		if (schedule_timeout_killable(HZ / 50 + 1) && fatal_signal_pending(current))
			return -EINTR;
	if (i2c_delay_us > 0)
		usleep_range(i2c_delay_us, i2c_delay_us + 1);
	mutex_lock(&sim_lock);
	if (i2c_fail > 0) {
		i2c_fail--;
		ret = -i2c_fail_errno;
		goto out;
	}
	switch (size) {
	case I2C_SMBUS_QUICK:
		break;
	case I2C_SMBUS_WORD_DATA:
		if (rw == I2C_SMBUS_READ) {
			ina_convert(n);
			data->word = swab16(c->reg[cmd]);
			if (cmd == 0x0f)
				c->reg[0x0f] &= ~0x03f1;
		} else {
			u16 v = swab16(data->word);

			if (cmd == 0 && (v & 0x8000))
				ina_reset(c);
			else if (cmd == 0x0f)
				c->reg[cmd] = (c->reg[cmd] & 0x03ff) | (v & 0x7c00);
			else if (cmd == 0 || (cmd >= 7 && cmd <= 0x0c) ||
				 cmd == 0x0e || cmd == 0x10 || cmd == 0x11)
				c->reg[cmd] = v;
			if (cmd == 0)
				c->conv_ns = 0;
		}
		break;
	default:
		ret = -EOPNOTSUPP;
	}
out:
	mutex_unlock(&sim_lock);
	return ret;
}

static u32 sim_func(struct i2c_adapter *a)
{
	return I2C_FUNC_SMBUS_QUICK | I2C_FUNC_SMBUS_WORD_DATA;
}

static const struct i2c_algorithm sim_algo = {
	.smbus_xfer = sim_xfer, .functionality = sim_func,
};
static struct i2c_adapter sim_adap = {
	.owner = THIS_MODULE, .algo = &sim_algo, .nr = 1,
	.name = "orin_sim i2c c240000",
};
static struct i2c_client *sim_cl[2];

static int __init sim_init(void)
{
	static const u32 mv[2][3] = { { 19000, 19000, 5000 }, { 1800, 5000, 1800 } };
	struct device *dev;
	int i, j, ret;

	sim_last_ns = ktime_get_ns();
	for (i = 0; i < 2; i++) {
		for (j = 0; j < 3; j++) {
			ina[i].mv[j] = mv[i][j];
			ina[i].shunt_uohm[j] = 2000;
		}
		ina_reset(&ina[i]);
	}
	sim_pdev = platform_device_alloc("17000000.gpu", PLATFORM_DEVID_NONE);
	if (!sim_pdev)
		return -ENOMEM;
	dev = &sim_pdev->dev;
	dev->groups = sim_groups;
	ret = platform_device_add(sim_pdev);
	if (ret) {
		platform_device_put(sim_pdev);
		return ret;
	}
	for (i = 0; i < SIM_NF; i++) {
		ret = dev_pm_opp_add(dev, sim_freqs[i],
				     600000 + sim_freqs[i] / 1000000 * 246);
		if (ret)
			goto err;
	}
	sim_df = devfreq_add_device(dev, &sim_profile, "nvhost_podgov", NULL);
	if (IS_ERR(sim_df)) {
		ret = PTR_ERR(sim_df);
		goto err;
	}
	devfreq_register_opp_notifier(dev, sim_df);
	ret = dev_pm_qos_add_request(dev, &sim_cap, DEV_PM_QOS_MAX_FREQUENCY,
				     PM_QOS_MAX_FREQUENCY_DEFAULT_VALUE);
	if (ret < 0)
		goto err_df;

	/* with a device tree the ina3221 nodes (labels, shunts) hang below it */
	sim_adap.dev.parent = dev;
	sim_adap.dev.of_node = of_find_node_by_path("/i2c@c240000");
	ret = i2c_add_numbered_adapter(&sim_adap);
	if (ret)
		goto err_df;
	if (!sim_adap.dev.of_node && bind)
		for (i = 0; i < 2; i++) {
			struct i2c_board_info bi = { I2C_BOARD_INFO("ina3221", 0x40 + i) };

			sim_cl[i] = i2c_new_client_device(&sim_adap, &bi);
		}
	return 0;
err_df:
	devfreq_remove_device(sim_df);
err:
	dev_pm_opp_remove_all_dynamic(dev);
	platform_device_unregister(sim_pdev);
	return ret;
}

static void __exit sim_exit(void)
{
	int i;

	for (i = 0; i < 2; i++)
		if (!IS_ERR_OR_NULL(sim_cl[i]))
			i2c_unregister_device(sim_cl[i]);
	i2c_del_adapter(&sim_adap);
	dev_pm_qos_remove_request(&sim_cap);
	devfreq_unregister_opp_notifier(&sim_pdev->dev, sim_df);
	devfreq_remove_device(sim_df);
	dev_pm_opp_remove_all_dynamic(&sim_pdev->dev);
	platform_device_unregister(sim_pdev);
}
module_init(sim_init);
module_exit(sim_exit);
MODULE_SOFTDEP("pre: nvhost_podgov");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("virtual Jetson AGX Orin board: GPU devfreq + two INA3221");
