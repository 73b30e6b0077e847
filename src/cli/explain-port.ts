/** Turns the error of a listener into what to do about it. */

const faults: ReadonlyMap<string | undefined, string> = new Map([
  ['EADDRINUSE', 'the address is in use; stop what uses it'],
  ['EACCES', 'this user may not open that port; take one above 1023'],
  ['EADDRNOTAVAIL', 'this machine has no such address; take one of its own'],
  ['ENOTFOUND', 'the host name is unknown; write an address'],
  ['EAI_AGAIN', 'the host name cannot be looked up; write an address'],
])

/** what: the listener and its address. setting: where the address is written. Other errors are returned as they are. */
export function explainPort(error: unknown, what: string, setting: string): unknown {
  const { code } = error as NodeJS.ErrnoException
  const fault = faults.get(code)
  if (fault === undefined) return error
  return new Error(`${what}: ${fault}, or change ${setting} (${code})`, { cause: error })
}
