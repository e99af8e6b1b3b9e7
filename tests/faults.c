/* Preloaded into a test's Python: makes reads of chosen files fail with a chosen errno.
 *
 * fault_set(path, errno) is called through ctypes; errno 0 takes all faults back. From another
 * process, the file that FAULTS names holds the same: an int, and behind it the path. Plain files can
 * be missing, closed or blocking by themselves; a driver's EAGAIN, EIO or ENODATA they cannot play.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

struct fault {
	int error;
	char path[PATH_MAX];
};

static struct fault own;
static volatile struct fault *fault = &own;

__attribute__((constructor)) static void share(void)
{
	const char *name = getenv("FAULTS");
	int descriptor = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
	void *memory;

	if (descriptor < 0)
		return;
	memory = mmap(NULL, sizeof(own), PROT_READ, MAP_SHARED, descriptor, 0);
	if (memory != MAP_FAILED)
		fault = memory;
	close(descriptor);
}

void fault_set(const char *path, int error)
{
	if (error == 0 || realpath(path, own.path) == NULL)
		own.path[0] = 0;
	own.error = error;
}

static int fails(int descriptor)
{
	char link[64], path[PATH_MAX];
	ssize_t length;

	if (fault->error == 0)
		return 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
	length = readlink(link, path, sizeof(path) - 1);
	if (length < 0)
		return 0;
	path[length] = 0;
	if (strcmp(path, (const char *)fault->path) != 0)
		return 0;
	errno = fault->error;
	return 1;
}

ssize_t read(int descriptor, void *buffer, size_t size)
{
	static ssize_t (*real)(int, void *, size_t);

	if (real == NULL)
		real = dlsym(RTLD_NEXT, "read");
	return fails(descriptor) ? -1 : real(descriptor, buffer, size);
}

ssize_t pread(int descriptor, void *buffer, size_t size, off_t offset)
{
	static ssize_t (*real)(int, void *, size_t, off_t);

	if (real == NULL)
		real = dlsym(RTLD_NEXT, "pread");
	return fails(descriptor) ? -1 : real(descriptor, buffer, size, offset);
}

ssize_t pread64(int descriptor, void *buffer, size_t size, off64_t offset)
{
	static ssize_t (*real)(int, void *, size_t, off64_t);

	if (real == NULL)
		real = dlsym(RTLD_NEXT, "pread64");
	return fails(descriptor) ? -1 : real(descriptor, buffer, size, offset);
}
