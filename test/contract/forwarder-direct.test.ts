import { createDirectEngine } from '../../src/core/forwarding/direct/forwarder.ts'
import { describeForwarder } from './forwarder.ts'

describeForwarder('direct', createDirectEngine)
