/* Downloads go to one directory, without a question. */
#include "shell.h"

#include <glib/gstdio.h>

/* The longest name, in bytes: with room for a number and for the ending of an unfinished download, within what file systems
 * take. */
enum { LONGEST_NAME = 200 };

/* The most characters of an address that are told: it may hold the whole file. */
enum { LONGEST_ADDRESS = 4000 };

/* What a file is called while it is on its way. WebKit keeps its place with an empty file and writes to another beside
 * it, of the same ending; under its own name it appears when it is whole. */
static const char unfinished[] = ".wkdownload";

/* The last component of a name somebody else chose, or another in its place. The agent gives out no file whose name has a
 * character of control or a backslash in it. */
static char *safe_name(const char *suggested) {
  g_autofree char *base = g_path_get_basename(suggested && *suggested ? suggested : "download");
  g_autofree char *valid = g_utf8_make_valid(base, -1);
  if (g_str_equal(valid, ".") || g_str_equal(valid, "..") || g_str_equal(valid, G_DIR_SEPARATOR_S)) {
    return g_strdup("download");
  }
  g_autoptr(GString) name = g_string_new(NULL);
  for (const char *at = valid; *at; at = g_utf8_next_char(at)) {
    gunichar letter = g_utf8_get_char(at);
    g_string_append_unichar(name, letter == '\\' || g_unichar_iscntrl(letter) ? (gunichar)'_' : letter);
  }
  if (name->len > LONGEST_NAME) {
    g_string_truncate(name, (gsize)(g_utf8_find_prev_char(name->str, name->str + LONGEST_NAME + 1) - name->str));
  }
  /* A whole file with that ending would count as one on its way. */
  if (g_str_has_suffix(name->str, unfinished)) {
    name->str[name->len - strlen(unfinished)] = '_';
  }
  return g_strdup(name->str);
}

static char *unfinished_path(const char *path) { return g_strconcat(path, unfinished, NULL); }

/* The paths given to downloads that go on: WebKit makes their files a little later, in another process. */
static GHashTable *under_way;

static void forget(gpointer path) { g_hash_table_remove(under_way, path); }

static gboolean taken(const char *path) {
  g_autofree char *part = unfinished_path(path);
  return g_hash_table_contains(under_way, path) || g_file_test(path, G_FILE_TEST_EXISTS) ||
         g_file_test(part, G_FILE_TEST_EXISTS);
}

/* Says that a download begins: its name, and where it comes from. */
static void tell(WebKitDownload *download, const char *path) {
  g_autofree char *name = g_path_get_basename(path);
  g_autofree char *escaped = g_uri_escape_string(name, NULL, FALSE);
  WebKitURIRequest *request = webkit_download_get_request(download);
  g_autofree char *address = g_utf8_make_valid(request ? webkit_uri_request_get_uri(request) : "", -1);
  if (g_utf8_strlen(address, -1) > LONGEST_ADDRESS) {
    *g_utf8_offset_to_pointer(address, LONGEST_ADDRESS) = '\0';
  }
  g_autofree char *from = g_uri_escape_string(address, NULL, FALSE);
  command_answer("download %s %s", escaped, from);
}

static gboolean on_decide_destination(WebKitDownload *download, const char *suggested, gpointer data) {
  const Shell *shell = data;
  g_autofree char *name = safe_name(suggested);
  g_autofree char *path = g_build_filename(shell->downloads, name, NULL);
  const char *dot = strrchr(name, '.');
  int stem = dot && dot != name ? (int)(dot - name) : (int)strlen(name);
  for (int number = 1; taken(path); number++) {
    g_autofree char *numbered = g_strdup_printf("%.*s (%d)%s", stem, name, number, name + stem);
    g_free(path);
    path = g_build_filename(shell->downloads, numbered, NULL);
  }
  g_autofree char *part = unfinished_path(path);
  g_autofree char *uri = g_filename_to_uri(part, NULL, NULL);
  webkit_download_set_destination(download, uri);
  tell(download, path);
  g_hash_table_add(under_way, path);
  /* The set has it, until the download has ended or is gone. */
  g_object_set_data_full(G_OBJECT(download), "path", g_steal_pointer(&path), forget);
  return TRUE;
}

static void on_failed(WebKitDownload *download, GError *error, gpointer data) {
  (void)error, (void)data;
  const char *path = g_object_get_data(G_OBJECT(download), "path");
  if (path) {
    g_autofree char *part = unfinished_path(path);
    g_remove(part);
    g_object_set_data(G_OBJECT(download), "path", NULL);
  }
}

/* Comes after a failure too. */
static void on_finished(WebKitDownload *download, gpointer data) {
  (void)data;
  const char *path = g_object_get_data(G_OBJECT(download), "path");
  if (path) {
    g_autofree char *part = unfinished_path(path);
    g_rename(part, path);
    g_object_set_data(G_OBJECT(download), "path", NULL);
  }
}

static void on_download_started(WebKitWebContext *context, WebKitDownload *download, gpointer data) {
  (void)context;
  g_signal_connect(download, "decide-destination", G_CALLBACK(on_decide_destination), data);
  g_signal_connect(download, "failed", G_CALLBACK(on_failed), NULL);
  g_signal_connect(download, "finished", G_CALLBACK(on_finished), NULL);
}

void download_watch(Shell *shell) {
  if (!under_way) {
    under_way = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  }
  g_signal_connect(shell->context, "download-started", G_CALLBACK(on_download_started), shell);
}
