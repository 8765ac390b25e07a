/* Records what a process does to the files below a folder; loaded by LD_PRELOAD (see replay.py for what is made of it).

   POWERCUT_ROOT    the folder, without symbolic links
   POWERCUT_RECORD  the file that gets the records; several processes may share it
   POWERCUT_SHADOW  a folder on the same file system: files that are unlinked or replaced get a hard link there, named by inode

   Records are lines of fields; I is an inode number, 0 for "no such entry" or "outside the folder". Names are percent-encoded.

       w I OFFSET                 the file will be written from there on (also: truncated to there)
       s ID                       a sync begins; it covers what was recorded before
       S ID I SIZE                the sync of a file or folder ended well; I is 0 for all files (sync, syncfs)
       + ID DIR NAME              an entry will be made (file, folder, link)
       - ID DIR NAME I FOLDER     an entry will be removed (FOLDER: 1 where it is one)
       > ID DIR NAME I DIR2 NAME2 I2   DIR/NAME, which is I, will become DIR2/NAME2, which is I2 now
       = ID I NEW                 what was announced was done, and the new entry is I (NEW: 1 where its file did not exist before)
       ! ID                       what was announced failed

   What will be done is announced, so that a kill in between is seen. No state is kept in the process: a descriptor is looked up
   whenever it is used, so dup, fork, vfork and stale numbers need no care. Nothing here allocates memory, and errno is kept. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define SHIM __attribute__((visibility("default")))
#define REAL(name) __extension__({ static __typeof__(&name) p_; if (!p_) p_ = (__typeof__(&name))dlsym(RTLD_NEXT, #name); p_; })

typedef unsigned long long u64;

static char root[PATH_MAX], record[PATH_MAX], shadow[PATH_MAX];
static size_t root_length;
static dev_t root_device;
static int on;
static u64 counter;

__attribute__((constructor)) static void begin(void) {
    const char *a = getenv("POWERCUT_ROOT"), *b = getenv("POWERCUT_RECORD"), *c = getenv("POWERCUT_SHADOW");
    struct stat st;
    if (!a || !b || !c || strlen(a) >= PATH_MAX || strlen(b) >= PATH_MAX || strlen(c) >= PATH_MAX - 32) return;
    if (stat(a, &st)) return;
    strcpy(root, a), strcpy(record, b), strcpy(shadow, c);
    root_length = strlen(root), root_device = st.st_dev, on = 1;
}

/* One record, in one write to a descriptor of its own: programs close descriptors that they do not know. */
__attribute__((format(printf, 1, 2))) static void put_record(const char *format, ...) {
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    int fd = syscall(SYS_openat, AT_FDCWD, record, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return;
    syscall(SYS_write, fd, line, length);
    syscall(SYS_close, fd);
}

static u64 next_id(void) {
    return ((u64)getpid() << 32) + (__atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED) & 0xffffffff);
}

/* The inode of a descriptor whose file or folder is the root or below it; 0 for all others. */
static u64 inside(int fd, struct stat *st) {
    char link[40], path[PATH_MAX];
    if (!on || fstat(fd, st) || st->st_dev != root_device || !(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode))) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    if (length < (ssize_t)root_length || memcmp(path, root, root_length)) return 0;
    path[length] = 0;
    return path[root_length] == '/' || !path[root_length] ? st->st_ino : 0;
}

/* An entry: the inode of its folder (0: outside), its name percent-encoded, its inode (0: none) and device. */
struct entry { u64 folder, inode; int is_folder; char name[3 * NAME_MAX + 1]; };

static void look(int at, const char *path, struct entry *e) {
    char folder[PATH_MAX];
    struct stat st;
    size_t length = path ? strlen(path) : 0;
    e->folder = e->inode = e->is_folder = 0, e->name[0] = 0;
    while (length > 1 && path[length - 1] == '/') length--;
    if (!on || !length || length >= PATH_MAX) return;
    memcpy(folder, path, length), folder[length] = 0;
    char *slash = strrchr(folder, '/');
    const char *name = path + (slash ? slash - folder + 1 : 0);
    size_t name_length = length - (name - path);
    if (!name_length || name_length > NAME_MAX) return;
    if (slash == folder) slash[1] = 0;
    else if (slash) *slash = 0;
    else strcpy(folder, ".");
    int fd = syscall(SYS_openat, at, folder, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) return;
    e->folder = inside(fd, &st);
    if (e->folder) {
        char own[NAME_MAX + 1], *to = e->name;
        memcpy(own, name, name_length), own[name_length] = 0;
        if (!fstatat(fd, own, &st, AT_SYMLINK_NOFOLLOW)) e->inode = st.st_ino, e->is_folder = S_ISDIR(st.st_mode);
        for (const char *c = own; *c; c++) {
            if (*c > ' ' && *c != '%' && *c < 127) *to++ = *c;
            else to += sprintf(to, "%%%02X", (unsigned char)*c);
        }
        *to = 0;
    }
    syscall(SYS_close, fd);
}

/* Keep a file that is about to lose this name. */
static void keep(int at, const char *path, const struct entry *e) {
    char place[PATH_MAX + 32];
    if (!e->folder || !e->inode) return;
    snprintf(place, sizeof place, "%s/%llu", shadow, e->inode);
    syscall(SYS_linkat, at, path, AT_FDCWD, place, 0);
}

static void outcome(u64 id, int failed, u64 inode, int fresh) {
    int saved = errno;
    if (failed) put_record("! %llu\n", id);
    else put_record("= %llu %llu %d\n", id, inode, fresh);
    errno = saved;
}

/* Files: made and written. */

static int opened(int at, const char *path, int flags, mode_t mode, int (*real)(int, const char *, int, mode_t)) {
    int saved = errno, writes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));
    if (!on || !writes || (flags & O_TMPFILE) == O_TMPFILE) return real(at, path, flags, mode);
    struct entry e;
    struct stat st;
    u64 id = 0, inode;
    look(at, path, &e);
    if (e.folder && !e.inode && (flags & O_CREAT)) {
        id = next_id();
        put_record("+ %llu %llu %s\n", id, e.folder, e.name);
    }
    errno = saved;
    int fd = real(at, path, flags, mode);
    saved = errno;
    inode = fd < 0 ? 0 : inside(fd, &st);
    if (id) outcome(id, fd < 0, inode, 1);
    else if (inode && (flags & O_TRUNC)) put_record("w %llu 0\n", inode);
    errno = saved;
    return fd;
}

static int really_open(int at, const char *path, int flags, mode_t mode) {
    return REAL(openat64)(at, path, flags, mode);
}

#define MODE mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list v; va_start(v, flags); mode = va_arg(v, int); va_end(v); }
SHIM int open(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode, really_open); }
SHIM int open64(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode, really_open); }
SHIM int openat(int at, const char *path, int flags, ...) { MODE return opened(at, path, flags, mode, really_open); }
SHIM int openat64(int at, const char *path, int flags, ...) { MODE return opened(at, path, flags, mode, really_open); }
SHIM int __open_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0, really_open); }
SHIM int __open64_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0, really_open); }
SHIM int __openat_2(int at, const char *path, int flags) { return opened(at, path, flags, 0, really_open); }
SHIM int __openat64_2(int at, const char *path, int flags) { return opened(at, path, flags, 0, really_open); }
SHIM int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode, really_open); }
SHIM int creat64(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode, really_open); }

/* The C library's own streams write behind our back: such a file counts as written from its beginning when it is opened and closed. */
static FILE *streamed(const char *path, const char *how, FILE *(*real)(const char *, const char *)) {
    struct entry e;
    struct stat st;
    u64 id = 0, inode;
    if (!on || !strpbrk(how, "wa+")) return real(path, how);
    look(AT_FDCWD, path, &e);
    if (e.folder && !e.inode) {
        id = next_id();
        put_record("+ %llu %llu %s\n", id, e.folder, e.name);
    }
    FILE *file = real(path, how);
    inode = file ? inside(fileno(file), &st) : 0;
    if (id) outcome(id, !file, inode, 1);
    int saved = errno;
    if (inode) put_record("w %llu %lld\n", inode, strchr(how, 'a') ? (long long)st.st_size : 0LL);
    errno = saved;
    return file;
}

SHIM FILE *fopen(const char *path, const char *how) { return streamed(path, how, REAL(fopen)); }
SHIM FILE *fopen64(const char *path, const char *how) { return streamed(path, how, REAL(fopen64)); }
SHIM int fclose(FILE *file) {
    struct stat st;
    int saved = errno, fd = on ? fileno(file) : -1, flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
    u64 inode = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY ? inside(fd, &st) : 0;
    if (inode) put_record("w %llu %lld\n", inode, flags & O_APPEND ? (long long)st.st_size : 0LL);
    errno = saved;
    return REAL(fclose)(file);
}

/* offset: -1 for the descriptor's own. */
static void dirty(int fd, off64_t offset) {
    int saved = errno;
    struct stat st;
    u64 inode = inside(fd, &st);
    if (inode) {
        if (offset < 0) offset = fcntl(fd, F_GETFL) & O_APPEND ? st.st_size : lseek64(fd, 0, SEEK_CUR);
        put_record("w %llu %lld\n", inode, (long long)(offset < 0 ? 0 : offset));
    }
    errno = saved;
}

static void shortened(int fd, off64_t length) {
    struct stat st;
    int saved = errno;
    u64 inode = inside(fd, &st);
    if (inode) put_record("w %llu %lld\n", inode, (long long)(length < st.st_size ? length : st.st_size));
    errno = saved;
}

SHIM ssize_t write(int fd, const void *from, size_t n) { dirty(fd, -1); return REAL(write)(fd, from, n); }
SHIM ssize_t pwrite(int fd, const void *from, size_t n, off_t at) { dirty(fd, at); return REAL(pwrite)(fd, from, n, at); }
SHIM ssize_t pwrite64(int fd, const void *from, size_t n, off64_t at) { dirty(fd, at); return REAL(pwrite64)(fd, from, n, at); }
SHIM ssize_t writev(int fd, const struct iovec *v, int n) { dirty(fd, -1); return REAL(writev)(fd, v, n); }
SHIM ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at) { dirty(fd, at); return REAL(pwritev)(fd, v, n, at); }
SHIM ssize_t pwritev64(int fd, const struct iovec *v, int n, off64_t at) { dirty(fd, at); return REAL(pwritev64)(fd, v, n, at); }
SHIM ssize_t pwritev2(int fd, const struct iovec *v, int n, off_t at, int how) { dirty(fd, at); return REAL(pwritev2)(fd, v, n, at, how); }
SHIM ssize_t copy_file_range(int a, off64_t *from, int b, off64_t *to, size_t n, unsigned how) {
    dirty(b, to ? *to : -1);
    return REAL(copy_file_range)(a, from, b, to, n, how);
}
ssize_t sendfile(int, int, off_t *, size_t);
ssize_t sendfile64(int, int, off64_t *, size_t);
SHIM ssize_t sendfile(int to, int from, off_t *at, size_t n) { dirty(to, -1); return REAL(sendfile)(to, from, at, n); }
SHIM ssize_t sendfile64(int to, int from, off64_t *at, size_t n) { dirty(to, -1); return REAL(sendfile64)(to, from, at, n); }
SHIM int ftruncate(int fd, off_t length) { shortened(fd, length); return REAL(ftruncate)(fd, length); }
SHIM int ftruncate64(int fd, off64_t length) { shortened(fd, length); return REAL(ftruncate64)(fd, length); }
SHIM int fallocate(int fd, int how, off_t at, off_t n) { dirty(fd, at); return REAL(fallocate)(fd, how, at, n); }
SHIM int fallocate64(int fd, int how, off64_t at, off64_t n) { dirty(fd, at); return REAL(fallocate64)(fd, how, at, n); }
SHIM int posix_fallocate(int fd, off_t at, off_t n) { dirty(fd, at); return REAL(posix_fallocate)(fd, at, n); }
SHIM int posix_fallocate64(int fd, off64_t at, off64_t n) { dirty(fd, at); return REAL(posix_fallocate64)(fd, at, n); }

static int cut(const char *path, off64_t length, int (*real)(const char *, off64_t)) {
    int saved = errno, fd = on ? syscall(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC, 0) : -1;
    if (fd >= 0) shortened(fd, length), syscall(SYS_close, fd);
    errno = saved;
    return real(path, length);
}
SHIM int truncate(const char *path, off_t length) { return cut(path, length, (int (*)(const char *, off64_t))REAL(truncate)); }
SHIM int truncate64(const char *path, off64_t length) { return cut(path, length, REAL(truncate64)); }

/* Syncs. */

static int synced(int fd, int (*real)(int)) {
    struct stat st;
    int saved = errno;
    u64 inode = inside(fd, &st), id = 0;
    if (inode) id = next_id(), put_record("s %llu\n", id);
    errno = saved;
    int result = real(fd);
    saved = errno;
    if (inode && !result) put_record("S %llu %llu %lld\n", id, inode, (long long)st.st_size);
    errno = saved;
    return result;
}

SHIM int fsync(int fd) { return synced(fd, REAL(fsync)); }
SHIM int fdatasync(int fd) { return synced(fd, REAL(fdatasync)); }
SHIM int syncfs(int fd) {
    u64 id = next_id();
    if (on) put_record("s %llu\n", id);
    int result = REAL(syncfs)(fd);
    if (on && !result) put_record("S %llu 0 0\n", id);
    return result;
}
SHIM void sync(void) {
    u64 id = next_id();
    if (on) put_record("s %llu\n", id);
    REAL(sync)();
    if (on) put_record("S %llu 0 0\n", id);
}

/* Entries. `DO` is the call that makes one, at `at`/`path`. */

#define MADE(at, path, DO) \
    struct entry e_; u64 id_ = 0; int saved_ = errno; \
    look(at, path, &e_); \
    if (e_.folder && !e_.inode) id_ = next_id(), put_record("+ %llu %llu %s\n", id_, e_.folder, e_.name); \
    errno = saved_; \
    int result_ = DO; saved_ = errno; \
    if (id_) { look(at, path, &e_); outcome(id_, result_, e_.inode, 0); } \
    errno = saved_; \
    return result_;

SHIM int mkdir(const char *path, mode_t mode) { MADE(AT_FDCWD, path, REAL(mkdir)(path, mode)) }
SHIM int mkdirat(int at, const char *path, mode_t mode) { MADE(at, path, REAL(mkdirat)(at, path, mode)) }
SHIM int link(const char *old, const char *path) { MADE(AT_FDCWD, path, REAL(link)(old, path)) }
SHIM int linkat(int from, const char *old, int at, const char *path, int how) {
    MADE(at, path, REAL(linkat)(from, old, at, path, how))
}
SHIM int symlink(const char *old, const char *path) { MADE(AT_FDCWD, path, REAL(symlink)(old, path)) }
SHIM int symlinkat(const char *old, int at, const char *path) { MADE(at, path, REAL(symlinkat)(old, at, path)) }

#define REMOVED(at, path, DO) \
    struct entry e_; u64 id_ = 0; int saved_ = errno; \
    look(at, path, &e_); \
    if (e_.folder && e_.inode) { \
        keep(at, path, &e_); \
        id_ = next_id(), put_record("- %llu %llu %s %llu %d\n", id_, e_.folder, e_.name, e_.inode, e_.is_folder); \
    } \
    errno = saved_; \
    int result_ = DO; \
    if (id_) outcome(id_, result_, 0, 0); \
    return result_;

SHIM int unlink(const char *path) { REMOVED(AT_FDCWD, path, REAL(unlink)(path)) }
SHIM int rmdir(const char *path) { REMOVED(AT_FDCWD, path, REAL(rmdir)(path)) }
SHIM int unlinkat(int at, const char *path, int how) { REMOVED(at, path, REAL(unlinkat)(at, path, how)) }
SHIM int remove(const char *path) { REMOVED(AT_FDCWD, path, REAL(remove)(path)) }

#define MOVED(from, old, at, path, DO) \
    struct entry a_, b_; u64 id_ = 0; int saved_ = errno; \
    look(from, old, &a_), look(at, path, &b_); \
    if ((a_.folder || b_.folder) && (a_.inode || !a_.folder)) { \
        keep(at, path, &b_); \
        id_ = next_id(); \
        put_record("> %llu %llu %s %llu %llu %s %llu\n", id_, a_.folder, a_.folder ? a_.name : "-", a_.inode, \
             b_.folder, b_.folder ? b_.name : "-", b_.inode); \
    } \
    errno = saved_; \
    int result_ = DO; saved_ = errno; \
    if (id_) { u64 inode_ = a_.inode; if (!inode_) { look(at, path, &b_); inode_ = b_.inode; } outcome(id_, result_, inode_, 0); } \
    errno = saved_; \
    return result_;

SHIM int rename(const char *old, const char *path) { MOVED(AT_FDCWD, old, AT_FDCWD, path, REAL(rename)(old, path)) }
SHIM int renameat(int from, const char *old, int at, const char *path) {
    MOVED(from, old, at, path, REAL(renameat)(from, old, at, path))
}
SHIM int renameat2(int from, const char *old, int at, const char *path, unsigned how) {
    MOVED(from, old, at, path, REAL(renameat2)(from, old, at, path, how))
}
