/** The command line's own help, and the error that leads to it. */

export const usage = `Usage: tollgate COMMAND

  start --config FILE                    the gateway and its admin listener
  demo [--config FILE] [--db FILE]       gateway, admin listener and catalogue service, with demo keys
  catalogue --listen HOST:PORT --db FILE the catalogue service only
  check --config FILE                    reads a config and names every problem
  keys new --client ID --plan PLAN [--expires DATE]
                                         makes an API key and prints the YAML for it
  --help, --version

Exit codes: 0 clean stop, 1 the work failed, 2 usage or config refused`

/** The command line cannot be understood: exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
