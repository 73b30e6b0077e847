/** Says what to do when an address cannot be listened on. */

const faults: ReadonlyMap<string | undefined, string> = new Map([
  ['EADDRINUSE', 'the address is in use; stop what uses it'],
  ['EACCES', 'this user may not open that port; take one above 1023'],
  ['EADDRNOTAVAIL', 'this machine has no such address; take one of its own'],
  ['ENOTFOUND', 'the host name is unknown; write an address'],
  ['EAI_AGAIN', 'the host name cannot be looked up; write an address'],
])

/** what: who wanted to listen and where. setting: where the address is written. Errors of another kind come back as they are. */
export function explainPort(error: unknown, what: string, setting: string): unknown {
  const { code } = error as NodeJS.ErrnoException
  const fault = faults.get(code)
  if (fault === undefined) return error
  return new Error(`${what}: ${fault}, or change ${setting} (${code})`, { cause: error })
}
