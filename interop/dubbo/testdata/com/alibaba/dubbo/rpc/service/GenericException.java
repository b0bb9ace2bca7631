package com.alibaba.dubbo.rpc.service;

/** The exception of a generic call that failed, by the names that Dubbo's documents have. */
public class GenericException extends RuntimeException {
    private String exceptionClass;
    private String exceptionMessage;

    public String getExceptionClass() {
        return exceptionClass;
    }

    public String getExceptionMessage() {
        return exceptionMessage;
    }
}
